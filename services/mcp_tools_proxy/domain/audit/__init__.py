"""What audit records and explanations say: origins, checks, rules, versions of the registry."""
