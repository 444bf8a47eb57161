export default function () {
  if (window.oneEntryPerPage) return
  window.oneEntryPerPage = true
  const push = window.history.pushState.bind(window.history)
  window.history.pushState = (state, unused, url) => {
    const target = new URL(url ?? window.location.href, window.location.href)
    if (target.pathname === window.location.pathname) window.history.replaceState(state, unused, url)
    else push(state, unused, url)
  }
}
