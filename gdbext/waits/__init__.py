"""What each blocked thread waits for."""
