# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""Population based training: several runs at a time, of which bad ones copy good ones and change settings."""
