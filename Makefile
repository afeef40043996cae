# Thin names for commands; the work is done by Go programs and scripts/setup.sh.
# make repro   the main job        make test   the checks (TOOLROUTE_CHECKS=all: none skipped)        make help   the rest
SHELL := bash
BIN := $(CURDIR)/.local/bin
PROFILE ?= default
SUITE ?= company
SUITES := $(patsubst configs/suite-%.yaml,%,$(wildcard configs/suite-*.yaml))

.PHONY: help setup repro repro-full smoke publish test doctor bench jupyter notebooks notebooks-check notebooks-sync notebooks-browser fuzz clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 18

setup:  ## project-local installs (the XLA CPU plugin); the other targets call it
	@scripts/setup.sh

repro: setup  ## the main job: all stages of a suite (SUITE=company) in the default profile
	go run ./scripts/repro --suite $(SUITE) --profile $(PROFILE)

repro-full: setup  ## three seeds, more attempts, ablations: hours, resumable
	go run ./scripts/repro --suite $(SUITE) --profile full

smoke: setup  ## every stage of every suite on small data
	@set -e; for suite in $(SUITES); do go run ./scripts/repro --suite $$suite --profile smoke; done

publish:  ## copy a finished run (PROFILE=..., SUITE=...) to results/, which is committed
	go run ./scripts/publish --suite $(SUITE) --profile $(PROFILE)

test:  ## linters, tests, race detector, smoke, notebooks; TOOLROUTE_CHECKS=all, as in CI, installs what they need and skips nothing
	@scripts/test.sh

doctor: setup  ## what this machine has, which backend will be used, how to get a faster one
	go run ./scripts/doctor

bench: setup  ## tokens per second of prefill, decoding and training, as JSON
	go run ./scripts/bench

notebooks-sync:  ## make the notebooks from their scripts (scripts/notebooks.sh back NAME goes the other way)
	@scripts/setup.sh tools jupyter
	@scripts/notebooks.sh sync

notebooks-browser:  ## run 01 and 03 in JupyterLab in a headless Chromium, with screenshots
	@scripts/setup.sh tools jupyter
	@scripts/notebooks.sh browser

jupyter:  ## install the GoNB kernel and JupyterLab into .local and open the notebooks
	@scripts/setup.sh tools jupyter
	@scripts/jupyter.sh

notebooks:  ## execute the committed notebooks (PROFILE=default)
	@scripts/setup.sh tools jupyter
	@scripts/notebooks.sh $(PROFILE)

notebooks-check:  ## execute every notebook in the smoke profile, in a temporary folder
	@scripts/setup.sh tools jupyter
	@scripts/notebooks.sh check

fuzz:  ## each fuzz target for FUZZTIME (5m)
	@scripts/fuzz.sh $${FUZZTIME:-5m}

clean:  ## forget runs and data sets (what was installed stays)
	rm -rf runs $(addprefix data/,$(SUITES))
