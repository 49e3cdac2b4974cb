"""The version of ALF. setup.py reads this file as text, so keep it one plain assignment."""

__version__ = "0.1.0"
