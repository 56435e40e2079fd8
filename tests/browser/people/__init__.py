"""Tests of who one is: signing in, roles, people."""
