"""json_schema/model_api"""
