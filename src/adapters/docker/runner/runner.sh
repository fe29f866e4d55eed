# The resident runner: one request a line on stdin, one framed reply on stdout. Between requests it keeps nothing that
# an answer depends on, so a second one started after a broken stream gives the same answers from the journal.
# arguments: `init` where the container's first process is an init helper, else `loop`: the lease loop itself; the words of a
# first request, where it comes with the scripts
#
# Reply: `lh1 KIND …` on one line; for init and turn a line with the open file, then as many bytes as the numbers say.
umask 077
cd /
first_process=$1
shift
newline='
'
# What the agent's processes must not inherit.
supervisor_script=$LH_SUPERVISOR command_script=$LH_COMMAND tools_script=$LH_TOOLS snapshot_script=$LH_SNAPSHOT
image_environment=$LH_IMAGE
unset LH_RUNNER LH_SUPERVISOR LH_COMMAND LH_TOOLS LH_SNAPSHOT LH_IMAGE
supervisor=
sent_state=
renewed=0
if [ -s /.lh/ready ]; then read_ready; fi

# answer VERB [WORD …]
answer() {
  lh_now
  # Any request is a sign of life; the time makes each renewal differ from the one before.
  if [ $((now - renewed)) -gt 100 ]; then
    lh_renew
    renewed=$now
  fi
  case $1 in
    init | turn | capture | reset | tree) "$@" ;;
    *) echo "lh1 error unknown-request" ;;
  esac
  # While nobody waits for an answer.
  need_supervisor
  [ -s /.lh/reserve.1 ] || [ ! -f /.lh/ready ] || fill_reserve
}

if [ $# -gt 0 ]; then answer "$@"; fi
while IFS=' ' read -r verb first second third fourth fifth sixth seventh eighth; do
  answer "$verb" "$first" "$second" "$third" "$fourth" "$fifth" "$sixth" "$seventh" "$eighth"
done
