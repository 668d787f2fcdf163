"""The commands login, logins and logout: what people have signed in to servers for."""
