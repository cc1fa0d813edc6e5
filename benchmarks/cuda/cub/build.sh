#!/usr/bin/env bash
# Builds libscan-NAME.so, the scans of one CCCL: the toolkit's, or that of the headers in INCLUDE
# (`pip download nvidia-cuda-cccl` brings them in nvidia/cu13/include/cccl).
# usage: build.sh FOLDER NAME [INCLUDE]
set -euo pipefail
folder=${1:?usage: build.sh FOLDER NAME [INCLUDE]}
name=${2:?usage: build.sh FOLDER NAME [INCLUDE]}
nvcc -O3 -std=c++17 -arch="${ARCH:-sm_90}" -shared -Xcompiler -fPIC ${3:+-I "$3"} \
  -o "$folder/libscan-$name.so" "$(dirname "$0")/scan.cu"
