#!/bin/sh
# Launches the CUDA compiler and keeps what ptxas -v says of registers and spills in OBJECT.ptxas,
# beside the object, for ptxas_check.cmake. Everything else goes to stderr as it was.
#
#   ptxas_report.sh COMPILER ARGUMENT...

object=
previous=
for argument in "$@"; do
  [ "$previous" = -o ] && object=$argument
  previous=$argument
done
case $object in
  *.o) ;;
  *) exec "$@" ;;
esac
said=$object.said
"$@" 2>"$said"
status=$?
report='^ptxas info|^ +[0-9]+ bytes stack frame|^$'
grep -E "$report" "$said" >"$object.ptxas"
grep -vE "$report" "$said" >&2
rm -f "$said"
exit $status
