"""The pictures of docs/console.md."""
