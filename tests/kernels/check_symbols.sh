#!/bin/sh
# Object files of one instruction set may hold no function that the linker could take for another's:
# an inline function of a shared header, compiled with AVX-512, would run on CPUs without it.
# Use: check_symbols.sh OBJECT...
status=0
for object in "$@"; do
  case $object in */avx2/* | */avx512/* | */amx/*) ;; *) continue ;; esac
  shared=$(nm -C "$object" | grep ' [Wu] ')
  if [ -n "$shared" ]; then
    echo "$object shares:"
    echo "$shared"
    status=1
  fi
done
exit $status
