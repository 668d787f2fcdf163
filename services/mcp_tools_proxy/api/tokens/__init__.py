"""The routes of bearer tokens, for operators: nobody gives away more than he has."""
