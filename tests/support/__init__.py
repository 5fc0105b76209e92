"""What tests share: interpreters, samples, GDB sessions and cores. No tests here."""
