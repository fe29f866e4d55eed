"""torchrun for the ranks of one machine: `python -m longhaul_trainer.parallel.launch` takes torchrun's own options.

torchrun's `--standalone` opens two ports on all interfaces and unpickles values from the store behind one of them, so any machine that
reaches the port can run code in the job. Here the store listens on loopback only, and nothing is unpickled.
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from datetime import timedelta

from torch.distributed import PrefixStore, TCPStore  # pyright: ignore[reportPrivateImportUsage]
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    rendezvous_handler_registry,
)
from torch.distributed.run import main

LOOPBACK = "127.0.0.1"
BACKEND = "loopback"


class LoopbackRendezvous(RendezvousHandler):
    """Rendezvous of a single agent: it is always rank 0 of 1 and has a store for the ranks that it starts."""

    def __init__(self, *, run_id: str, timeout_s: float = 600.0) -> None:
        self._run_id = run_id
        listener = socket.create_server((LOOPBACK, 0))
        self._port = listener.getsockname()[1]
        # With only a port, a TCPStore would listen on all interfaces. It closes the descriptor itself.
        self._store = TCPStore(
            LOOPBACK,
            self._port,
            is_master=True,
            timeout=timedelta(seconds=timeout_s),
            wait_for_workers=False,
            multi_tenant=True,
            master_listen_fd=listener.detach(),
        )

    def get_backend(self) -> str:
        return BACKEND

    @property
    def use_agent_store(self) -> bool:
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        store = PrefixStore(self._run_id, self._store)
        return RendezvousInfo(store, 0, 1, RendezvousStoreInfo(LOOPBACK, self._port))

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        pass

    def num_nodes_waiting(self) -> int:
        return 0

    def get_run_id(self) -> str:
        return self._run_id

    def shutdown(self) -> bool:
        return True


def _create(params: RendezvousParameters) -> RendezvousHandler:
    return LoopbackRendezvous(run_id=params.run_id)


if __name__ == "__main__":
    rendezvous_handler_registry.register(BACKEND, _create)
    if sys.platform == "linux":
        # Connections between ranks: without an interface they listen on the address of the host's name.
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        os.environ.setdefault("NCCL_SOCKET_IFNAME", "lo")
    # The endpoint is unused. Without one torchrun warns that it ignores --master-addr.
    # The id tells the ranks of this launch from those of another one of the same attempt.
    rendezvous = [f"--rdzv-backend={BACKEND}", f"--rdzv-endpoint={LOOPBACK}:0", f"--rdzv-id={secrets.token_hex(8)}"]
    main(["--nnodes=1", *rendezvous, *sys.argv[1:]])
