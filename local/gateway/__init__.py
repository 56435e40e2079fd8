"""A local API Gateway and Lambda that take their routes, limits and time-outs from template.yaml."""
