"""llama.cpp's server out of a Python package that brings it built: llama_server.py MODEL PORT THREADS PARALLEL CONTEXT

Serves 127.0.0.1 until it is killed. CONTEXT: tokens of each of the PARALLEL requests."""

import signal
import sys

import xllamacpp

model, port, threads, parallel, context = sys.argv[1], *map(int, sys.argv[2:])
parameters = xllamacpp.CommonParams()
parameters.model.path = model
parameters.port = port
parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = threads
parameters.n_parallel = parallel
parameters.n_ctx = context * parallel
server = xllamacpp.Server(parameters)
signal.pause()
