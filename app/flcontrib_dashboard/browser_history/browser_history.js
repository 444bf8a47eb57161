const DRAWER = "(max-width: 768px)" // where Streamlit lays the sidebar over the page

function closeDrawer() {
  const sidebar = document.querySelector('[data-testid="stSidebar"]')
  if (!window.matchMedia(DRAWER).matches || !sidebar || sidebar.getBoundingClientRect().right <= 0) return
  sidebar.querySelector('[data-testid="stSidebarCollapseButton"] button')?.click()
}

// Streamlit puts the pages' <li> into <div>s inside one <ul>, which is a list to nobody. Each <div> becomes one here.
function nameLists() {
  const pages = document.querySelector('[data-testid="stSidebarNavItems"]:not([role])')
  const sections = pages?.querySelectorAll(":scope > div") ?? []
  if (!sections.length) return
  pages.setAttribute("role", "presentation")
  for (const section of sections) {
    const header = section.querySelector('[data-testid="stNavSectionHeader"]')
    section.setAttribute("role", "list")
    section.setAttribute("aria-label", header?.textContent ?? "Pages")
    header?.setAttribute("role", "presentation")
  }
}

export default function () {
  nameLists()
  if (window.oneEntryPerPage) return
  window.oneEntryPerPage = true
  new MutationObserver(nameLists).observe(document.body, { childList: true, subtree: true })
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
