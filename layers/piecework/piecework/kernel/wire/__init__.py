"""What clients read: frames, pages, cursors."""
