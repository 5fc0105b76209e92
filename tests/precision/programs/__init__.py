"""Small programs, deadlocked and healthy; `harness.py` says what their headers mean."""
