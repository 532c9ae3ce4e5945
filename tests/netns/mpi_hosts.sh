#!/bin/sh
# Runs Open MPI over all nodes of a lab, one rank of which runs on each: rank 0 starts mpirun, whose
# remote commands the other nodes take from files in $SPOOL.
set -eu
if [ "${1-}" = agent ]; then  # agent HOST COMMAND…: what mpirun calls in place of ssh
  host=$2
  shift 2
  echo "$*" >"$SPOOL/$host.part"
  mv "$SPOOL/$host.part" "$SPOOL/$host.command"
  until [ -e "$SPOOL/finished" ]; do sleep 0.05; done
  exit 0
fi
if [ "$RANK" != 0 ]; then
  until [ -e "$SPOOL/$(hostname).command" ]; do sleep 0.05; done
  exec sh "$SPOOL/$(hostname).command"
fi
hosts=node0:2
for node in $(seq 1 $((WORLD_SIZE - 1))); do hosts=$hosts,node$node:2; done
code=0
# Which interface is the network cannot be guessed from addresses alone; loopback is there too.
OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun --host "$hosts" \
  -n $((2 * WORLD_SIZE)) --oversubscribe --mca plm_rsh_agent "$0 agent" \
  --mca oob_tcp_if_include e0 --mca btl_tcp_if_include e0 \
  sh -c 'echo host $(hostname)' || code=$?
touch "$SPOOL/finished"
exit $code
