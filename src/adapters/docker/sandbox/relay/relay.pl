# The sandbox's end of its network: listens on loopback and carries each connection over standard input and output to the worker,
# which decides what is reached. Frames: one letter, connection number and length (32 bits, big-endian), payload.
# R ready, O open, D data, F no more data, C closed. It has no say in anything, so it may run where the agent is root.
# argument: PORT
use strict;
use Socket;

my $BUFFERED = 1 << 20;
my $STALLED = 60;
my ($port, $mark) = (shift, '/.lh/agent/relay');
my ($next, $input, %at) = (1, '');
$SIG{PIPE} = 'IGNORE';
umask 077;

# The one of an earlier worker may still hold the door.
if (open my $file, '<', $mark) { my $old = <$file>; kill 'KILL', $1 if defined $old && $old =~ /^(\d+)$/ && $1 > 1; }
socket my $door, PF_INET, SOCK_STREAM, 0 or die "socket: $!";
setsockopt $door, SOL_SOCKET, SO_REUSEADDR, 1;
my $patience = 40;
until (bind $door, sockaddr_in($port, INADDR_LOOPBACK)) {
  die "bind: $!" unless $patience--;
  select undef, undef, undef, 0.05;
}
listen $door, 128 or die "listen: $!";
if (open my $file, '>', $mark) { print $file $$; close $file; }
say_frame('R', 0, '');

while (1) {
  my ($reads, $writes, $blocked, $now) = ('', '', 0, time);
  for my $one (values %at) {
    vec($reads, fileno $one->{socket}, 1) = 1 unless $one->{ended};
    if (length $one->{out}) {
      vec($writes, fileno $one->{socket}, 1) = 1;
      $blocked = 1 if length $one->{out} > $BUFFERED;
      leave($one, 1) if $now - $one->{since} > $STALLED;
    }
  }
  vec($reads, fileno $door, 1) = 1;
  # Who does not read its answer holds up the others, for a minute at most.
  vec($reads, 0, 1) = 1 unless $blocked;
  next if 0 > select $reads, $writes, undef, 5;

  for my $one (values %at) {
    flush_out($one) if vec $writes, fileno $one->{socket}, 1;
  }
  for my $one (values %at) {
    next unless defined $one->{socket} && vec $reads, fileno $one->{socket}, 1;
    my $got = sysread $one->{socket}, my $bytes, 32768;
    if (!defined $got) { leave($one, 1); }
    elsif ($got) { say_frame('D', $one->{id}, $bytes); }
    else { $one->{ended} = 1; say_frame('F', $one->{id}, ''); leave($one, 0) if $one->{finished} && !length $one->{out}; }
  }
  if (vec($reads, fileno $door, 1) && accept my $socket, $door) {
    $socket->blocking(0);
    my $id = $next++;
    $at{$id} = { id => $id, socket => $socket, out => '', since => $now };
    say_frame('O', $id, '');
  }
  if (vec $reads, 0, 1) {
    # The worker is gone, or has another one of us.
    exit 0 unless sysread STDIN, $input, 65536, length $input;
    while (length $input >= 9) {
      my ($kind, $id, $size) = unpack 'a N N', $input;
      last if length $input < 9 + $size;
      my $payload = substr $input, 9, $size;
      substr $input, 0, 9 + $size, '';
      my $one = $at{$id} or next;
      if ($kind eq 'D') { $one->{since} = $now unless length $one->{out}; $one->{out} .= $payload; }
      elsif ($kind eq 'F') { $one->{finished} = 1; }
      else { $one->{closing} = 1; }
      flush_out($one);
    }
  }
}

sub flush_out {
  my $one = shift;
  if (length $one->{out}) {
    my $put = syswrite $one->{socket}, $one->{out};
    if ($put) { substr $one->{out}, 0, $put, ''; $one->{since} = time; }
    elsif (!$!{EAGAIN}) { return leave($one, 1); }
  }
  return if length $one->{out};
  return leave($one, 0) if $one->{closing} || $one->{finished} && $one->{ended};
  shutdown $one->{socket}, 1 if $one->{finished};
}

sub leave {
  my ($one, $tell) = @_;
  delete $at{$one->{id}} or return;
  close $one->{socket};
  say_frame('C', $one->{id}, '') if $tell;
}

sub say_frame {
  my ($kind, $id, $payload) = @_;
  my $frame = pack('a N N', $kind, $id, length $payload) . $payload;
  while (length $frame) {
    my $put = syswrite STDOUT, $frame;
    exit 1 unless $put;
    substr $frame, 0, $put, '';
  }
}
