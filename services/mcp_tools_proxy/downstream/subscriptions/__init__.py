"""downstream/subscriptions"""
