# Copyright 2026 The ALF Authors. Licensed under the Apache License, Version 2.0.
"""ALF beside other libraries on one machine; the scripts run in virtual environments of their own."""
