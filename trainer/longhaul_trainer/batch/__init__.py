"""The batch file: a torn or edited one must never train."""
