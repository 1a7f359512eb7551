#!/bin/sh
# Installs what pip cannot: asks for nothing that is already there, and says what it does.
# Usage: system_packages.sh PYTHON [--test]   (--test: also what only the tests need)
set -eu
python=$1
mode=${2:-}

case $PWD in
*[]\;:\"\\[*?]*)
  printf '%s\n' "llm-lite is not built in $PWD: expected a path without ; : \" \\ [ ] * and ?, which \
CMake or Python's venv cannot have. Rename the folder, or move the checkout." >&2
  exit 1
  ;;
esac

have_library() { ldconfig -p 2>/dev/null | grep -q "$1"; }
have_vulkan_driver() {
  [ -n "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ] && return 0
  for folder in /etc/vulkan/icd.d /usr/share/vulkan/icd.d /usr/local/share/vulkan/icd.d \
    /usr/local/etc/vulkan/icd.d /usr/local/nvidia/share/vulkan/icd.d "$HOME/.local/share/vulkan/icd.d"; do
    for driver in "$folder"/*.json; do
      [ -e "$driver" ] && return 0
    done
  done
  return 1
}
have_layer() {
  for layer in /usr/share/vulkan/explicit_layer.d/*validation*.json \
    /etc/vulkan/explicit_layer.d/*validation*.json; do
    [ -e "$layer" ] && return 0
  done
  return 1
}
have_headers() {
  "$python" -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))'
}

if ! command -v "$python" >/dev/null 2>&1; then
  missing="python3 python3-venv python3-dev"
else
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "llm-lite needs Python 3.11 or newer; $python is $("$python" -V 2>&1)." >&2
    echo "Install a newer one and say: make PYTHON=/path/to/python3" >&2
    exit 1
  }
  missing=
  "$python" -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
  have_headers || missing="$missing python3-dev"
fi

if [ "$(uname -s)" = Darwin ]; then
  command -v c++ >/dev/null 2>&1 || { echo "Run: xcode-select --install" >&2; exit 1; }
  [ -z "$missing" ] || { echo "Install Python 3.11 or newer, from python.org or: brew install python" >&2; exit 1; }
  ls /usr/local/lib/libvulkan* /opt/homebrew/lib/libvulkan* >/dev/null 2>&1 ||
    echo "No Vulkan loader found. For the window: brew install vulkan-loader molten-vk (the terminal commands work without)." >&2
  exit 0
fi

command -v c++ >/dev/null 2>&1 || command -v g++ >/dev/null 2>&1 || missing="$missing g++"
have_library libvulkan.so.1 || missing="$missing libvulkan1"
have_vulkan_driver || missing="$missing mesa-vulkan-drivers"
for pair in libX11.so.6:libx11-6 libXcursor.so.1:libxcursor1 libXi.so.6:libxi6 \
  libXrandr.so.2:libxrandr2 libXinerama.so.1:libxinerama1 libXext.so.6:libxext6 \
  libxkbcommon.so.0:libxkbcommon0; do
  have_library "${pair%%:*}" || missing="$missing ${pair##*:}"
done
if [ "$mode" = --test ]; then
  have_layer || missing="$missing vulkan-validationlayers"
  command -v Xvfb >/dev/null 2>&1 || missing="$missing xvfb"
  command -v g++ >/dev/null 2>&1 || missing="$missing g++" # brings the sanitizers
fi
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
  echo "llm-lite needs what Debian calls:$missing" >&2
  echo "Install their counterparts with your system's package manager, then run this again." >&2
  exit 1
fi
as_root=
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null 2>&1 || {
    echo "As root, run: apt-get install$missing" >&2
    exit 1
  }
  as_root=sudo
fi
echo "Installing from the system's packages:$missing"
$as_root apt-get update -qq
# shellcheck disable=SC2086
$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
