"""filesystem"""
