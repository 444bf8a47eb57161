"""The dashboard for ``streamlit run app/streamlit_app.py``; ``flcontrib serve`` adds the upload route and settings."""

import runpy

runpy.run_module("flcontrib_dashboard.streamlit_app", run_name="__main__")
