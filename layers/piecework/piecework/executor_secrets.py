"""Settings and secrets of executors, under the public name: see `piecework.extend.secrets`."""

from piecework.extend.secrets import SECRET_ARN, executor_values, secret

__all__ = ["SECRET_ARN", "executor_values", "secret"]
