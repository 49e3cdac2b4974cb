# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Serves an exported policy over HTTP; of all packages it needs TensorFlow alone.

    alf export RUN -o DIR
    python serve_policy.py DIR 8080
    curl -d '{"client": "robot 7", "observation": [0.1, 0, 0, 0], "episode_start": true}' localhost:8080

answers {"action": 1}. An observation of several parts is {"observation_image": ..., "observation_gear": ...},
with the names in DIR/signature.json. The state of each client is kept here; "reward" is for policies that
look at it.
"""

import collections
import json
import os
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

import tensorflow as tf

MAX_CLIENTS = 1000  # whoever has not asked for longest is forgotten


class PolicyServer(HTTPServer):
    def __init__(self, folder, port):
        super().__init__(("localhost", port), Handler)
        with open(os.path.join(folder, "signature.json"), encoding="utf-8") as file:
            self.inputs = json.load(file)["inputs"]
        self.model = tf.saved_model.load(folder)  # which keeps the variables of its functions
        states = [spec for spec in self.inputs if spec["name"].startswith("state_")]
        self.no_state = {spec["name"]: tf.zeros([1, *spec["shape"][1:]], spec["dtype"]) for spec in states}
        self.states = collections.OrderedDict()  # by client

    def act(self, client, observation, episode_start=False, reward=0.0):
        is_first = episode_start or client not in self.states
        values = observation if isinstance(observation, dict) else {"observation": observation}
        values |= {"step_type": int(not is_first), "reward": reward, "discount": 1.0}
        values |= self.states.get(client, self.no_state)
        inputs = {}
        for spec in self.inputs:
            value = tf.convert_to_tensor(values[spec["name"]], spec["dtype"])
            inputs[spec["name"]] = tf.reshape(value, [1, *spec["shape"][1:]])
        outputs = self.model.signatures["serving_default"](**inputs)
        self.states[client] = {k.removeprefix("next_"): x for k, x in outputs.items() if k[:5] == "next_"}
        self.states.move_to_end(client)
        if len(self.states) > MAX_CLIENTS:
            self.states.popitem(last=False)
        return {name: x[0].numpy().tolist() for name, x in outputs.items() if name.startswith("action")}


class Handler(BaseHTTPRequestHandler):
    timeout = 30  # seconds, in which a client must send its request

    def do_POST(self):
        try:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = 200, self.server.act(**request)
        except Exception as error:  # the request is wrong, for example a shape
            status, answer = 400, {"error": repr(error)}
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode() + b"\n")


if __name__ == "__main__":
    server = PolicyServer(sys.argv[1], int(sys.argv[2]))
    print(f"serves {sys.argv[1]} at port {server.server_port}", flush=True)
    server.serve_forever()
