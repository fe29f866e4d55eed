"""Reads the batch file and refuses a torn or edited one."""
