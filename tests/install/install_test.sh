#!/bin/sh
# Installs a build tree, then configures, builds and runs a project against what was installed.
# Usage: install_test.sh CMAKE BUILD CONSUMER SCRATCH
set -eu
cmake=$1
build=$2
consumer=$3
scratch=$4
rm -rf "$scratch/prefix" "$scratch/consumer"
"$cmake" --install "$build" --prefix "$scratch/prefix" >"$scratch/install.log"
"$cmake" -S "$consumer" -B "$scratch/consumer" -G Ninja -DCMAKE_PREFIX_PATH="$scratch/prefix"
"$cmake" --build "$scratch/consumer"
"$scratch/consumer/consumer"
"$scratch/prefix/bin/strata" --version
