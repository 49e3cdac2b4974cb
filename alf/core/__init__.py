# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""What knows nothing of reinforcement learning: nests, files, seeds, TensorFlow's threads."""
