"""Studies: networks trained and tested fold by fold, guarded in several ways, as stored rows and tables."""
