// The search runs in a Worker, and browsers start none for a page that was opened from a folder (file://). There, its
// script runs in a hidden frame instead; the offline plugin would fetch a script for that from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      this.ready = new Promise((done) => frame.addEventListener("load", () => done(frame.contentWindow)))
      window.__answer = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
      frame.srcdoc = `<script>self.postMessage = (data) => parent.__answer(data)<\/script><script src="${url}"><\/script>`
      document.body.append(frame)
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })))
    }
  }
}
