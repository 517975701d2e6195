"""The pages: layout and thin handlers. What they show is made in webapp/view.py and webapp/timeline.py."""
