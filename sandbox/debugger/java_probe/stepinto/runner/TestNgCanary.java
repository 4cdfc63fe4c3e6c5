package stepinto.runner;

import org.testng.Assert;
import org.testng.annotations.Test;

/** A template of {@link Canary}. */
public class TestNgCanary {
    @Test
    public void mustFail() {
        Assert.assertTrue(false);
    }
}
