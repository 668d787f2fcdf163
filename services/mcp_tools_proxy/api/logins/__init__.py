"""The routes of logins to servers: users look after their own, operators after all."""
