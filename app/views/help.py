"""Help: what the words mean, how it works, what it cannot do, and what a marked client can do."""

from __future__ import annotations

import streamlit as st

from app import wording

st.title("What the words mean, and what this tool cannot know")
words, limits = st.columns([1.3, 1], gap="small")
with words, st.container(border=True, height="stretch"):
    st.markdown("**Glossary**")
    for term, meaning in wording.GLOSSARY.items():
        st.markdown(f"**{term}** – {meaning}")
with limits:
    with st.container(border=True):
        st.markdown("**I was marked: what can I do?**")
        for line in wording.MARKED:
            st.markdown(f"- {line}")
    with st.container(border=True):
        st.markdown("**Limits**")
        for line in wording.LIMITS:
            st.markdown(f"- {line}")
    with st.container(border=True):
        st.markdown("**How it works**")
        for line in wording.METHOD:
            st.markdown(f"1. {line}")
