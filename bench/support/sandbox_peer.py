"""Runs commands through another project's sandbox and says how long each took.

Arguments: `miniSweAgent` or `sweRex`, and the image. One JSON object a line: {"command", "timeout"} (seconds) in,
{"ms", "exit", "output", "timeout", "error"} out, after a first line {"ready": true}; a peer that is not installed or cannot start
says {"ready": false}. The caller judges exit and output: a command that raised is fast, and no figure.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import uuid

# The peers print what they like; answers have the first descriptor for themselves.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def say(answer):
    print(json.dumps(answer), file=answers, flush=True)


class DeadlinePassed(Exception):
    """The command was ended at its deadline."""


def serve(run):
    """run(command, timeout) returns (exit status, output), or raises DeadlinePassed."""
    say({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        answer = {}
        started = time.perf_counter()
        try:
            answer["exit"], answer["output"] = run(request["command"], request["timeout"])
        except DeadlinePassed:
            answer["timeout"] = True
        except Exception as error:
            answer["error"] = f"{type(error).__name__}: {error}"[:500]
        say({"ms": (time.perf_counter() - started) * 1000, **answer})


def mini_swe_agent(image):
    """Its Docker environment: one `docker exec` process and one login shell for each action."""
    from minisweagent.environments.docker import DockerEnvironment

    environment = DockerEnvironment(image=image, cwd="/testbed", run_args=["--rm", "--network", "none"])

    def run(command, timeout):
        try:
            found = environment.execute({"command": command}, timeout=timeout)
        except AttributeError:
            found = environment.execute(command, timeout=timeout)
        if "timed out" in str(found.get("exception_info", "")):
            raise DeadlinePassed
        return found["returncode"], found["output"]

    try:
        serve(run)
    finally:
        environment.cleanup()


def swe_rex(image):
    """Its server in the container, spoken to over HTTP. The server's packages come from this environment, so nothing is
    downloaded; the container shares the host's network, for the server needs a port."""
    import swerex
    from swerex.runtime.abstract import BashAction, BashInterruptAction, CreateBashSessionRequest
    from swerex.runtime.remote import RemoteRuntime

    packages = os.path.dirname(os.path.dirname(swerex.__file__))
    name, token = f"longhaul-bench-rex-{os.getpid()}", uuid.uuid4().hex
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    docker = ["docker"]
    server = "import sys; sys.argv[0] = 'swerex-remote'; from swerex.server import main; main()"
    start = f"PYTHONPATH=/opt/rex exec python3 -c \"{server}\" --host 127.0.0.1 --port {port} --auth-token {token}"
    create = ["create", "--name", name, "--network", "host", "-w", "/testbed", image, "bash", "-c", start]
    subprocess.run([*docker, *create], check=True, stdout=subprocess.DEVNULL)
    loop = asyncio.new_event_loop()
    try:
        subprocess.run([*docker, "cp", packages, f"{name}:/opt/rex"], check=True, stdout=subprocess.DEVNULL)
        subprocess.run([*docker, "start", name], check=True, stdout=subprocess.DEVNULL)
        runtime = RemoteRuntime(host="http://127.0.0.1", port=port, auth_token=token, timeout=60)
        loop.run_until_complete(runtime.wait_until_alive(timeout=60))
        loop.run_until_complete(runtime.create_session(CreateBashSessionRequest()))
        begin = BashAction(command="cd /testbed; export PAGER=cat GIT_PAGER=cat", timeout=20)
        loop.run_until_complete(runtime.run_in_session(begin))

        def run(command, timeout):
            # Its session is one shell for the whole episode: an exit would end it.
            command = f"({command}\n)" if command.startswith("exit") else command
            action = BashAction(command=command, timeout=timeout, check="silent")
            try:
                found = loop.run_until_complete(runtime.run_in_session(action))
            except Exception as error:
                if "imeout" not in type(error).__name__ + str(error):
                    raise
                # The session is of no use until what runs in it is interrupted.
                loop.run_until_complete(runtime.run_in_session(BashInterruptAction(timeout=5)))
                raise DeadlinePassed from error
            return found.exit_code, found.output

        serve(run)
    finally:
        subprocess.run([*docker, "rm", "-f", name], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


PEERS = {"miniSweAgent": mini_swe_agent, "sweRex": swe_rex}

if __name__ == "__main__":
    try:
        PEERS[sys.argv[1]](sys.argv[2])
    except Exception as error:
        print(f"{sys.argv[1]} is skipped: {type(error).__name__}: {error}"[:500], file=sys.stderr)
        say({"ready": False})
