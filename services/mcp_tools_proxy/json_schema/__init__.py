"""json_schema"""
