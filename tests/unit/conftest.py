"""Generated examples without a clock: how long one takes on a busy machine says nothing about it."""

from hypothesis import HealthCheck, settings

settings.register_profile("without_a_clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("without_a_clock")
