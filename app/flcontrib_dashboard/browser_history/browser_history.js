const DRAWER = "(max-width: 768px)" // where Streamlit lays the sidebar over the page

function closeDrawer() {
  const sidebar = document.querySelector('[data-testid="stSidebar"]')
  if (!window.matchMedia(DRAWER).matches || !sidebar || sidebar.getBoundingClientRect().right <= 0) return
  sidebar.querySelector('[data-testid="stSidebarCollapseButton"] button')?.click()
}

export default function () {
  if (window.oneEntryPerPage) return
  window.oneEntryPerPage = true
  const push = window.history.pushState.bind(window.history)
  window.history.pushState = (state, unused, url) => {
    const target = new URL(url ?? window.location.href, window.location.href)
    if (target.pathname === window.location.pathname) window.history.replaceState(state, unused, url)
    else {
      push(state, unused, url)
      closeDrawer()
    }
  }
}
