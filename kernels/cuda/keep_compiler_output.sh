#!/bin/sh
# Runs a compiler and keeps what it says, registers and spills of every kernel, in OBJECT.ptxas;
# shows it where the compiler fails: keep_compiler_output.sh COMPILER ... -o OBJECT ...
previous=
object=
for argument in "$@"; do
  if [ "$previous" = -o ]; then object=$argument; fi
  previous=$argument
done
if [ -z "$object" ]; then exec "$@"; fi
"$@" >"$object.ptxas" 2>&1
status=$?
if [ $status -ne 0 ]; then cat "$object.ptxas" >&2; fi
exit $status
