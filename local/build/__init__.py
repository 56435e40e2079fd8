"""The build of layers and functions: locked wheels, byte code for Lambda, and a check of both."""
