"""The console in a real Chromium, under the headers that are deployed."""
