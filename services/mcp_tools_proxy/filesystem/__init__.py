"""Files: written whole, watched for changes, temporary."""
