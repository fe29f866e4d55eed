"""llama.cpp's own server, as the package xllamacpp has it, until it is killed. Options come as JSON: those of `startLlamaCpp`."""

import json
import os
import signal
import sys

import xllamacpp

options = json.loads(sys.argv[1])
params = xllamacpp.CommonParams()
params.model.path = options["model"]
params.model_alias = {options["name"]}
params.hostnames = ["127.0.0.1"]
params.port = options["port"]
params.api_keys = os.environ["SERVER_KEYS"].split(",")
params.n_parallel = options["slots"]
params.n_ctx = options["slots"] * options["context"]
params.fit_params = False
# Half precision, its default, would hide a wrong rope behind its rounding.
params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print("listening at", server.listening_address, flush=True)
signal.pause()
