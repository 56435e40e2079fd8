"""Cold starts: functions and baselines under a Runtime API stub and an AWS stub."""
