"""What API Gateway and queues send in: proxy events, credentials, batches of messages."""
